set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
W=/tmp/w; mkdir -p $W
nvidia-cuda-mps-control -d >/dev/null 2>&1 || true
H="python3 -m headway"
la() {
  $H train gpu/$1.toml --seeds $2 --device cuda --out $W/$1 --quiet --json > $W/$1.train.json 2> $W/$1.train.err
  $H lengths $W/$1/* $3 --device cuda --no-figures --json --quiet > $W/$1.part 2> $W/$1.err
  [ -s $W/$1.part ] && mv $W/$1.part $W/$1.json
  echo "$1 done at $SECONDS s"
}
la la-window8 0-2 "--at 64,128,256 --n 2000" &
la la-noclip 0-2 "--at 64,128,256 --n 2000" &
la la-kinds 0-2 "--at 64,128,256 --n 2000" &
( la sg-window1 0-2 "--n 1000"; la sg-window4 0-2 "--n 1000" ) &
la sg-nowindow 0-2 "--n 1000" &
la la-nocoupling 0-2 "--at 64,128,256 --n 1000" &
hd() {
  for s in $2; do
    $H heads $W/$1/$1-seed$s --thorough --no-figures --device cuda --json --quiet $3 > /dev/null 2> $W/$1-$s.err
    [ -s $W/$1/$1-seed$s/analysis/heads.json ] && gzip -c $W/$1/$1-seed$s/analysis/heads.json > $W/heads-$1-seed$s.json.gz
    echo "$1 heads $s at $SECONDS s"
  done
}
( $H train addition-course --seeds 20-47 --device cuda --out $W/addition-course --quiet --json > $W/addition-course.train.json 2> $W/addition-course.train.err; echo "course trained at $SECONDS s"
  good=$(python3 -c "
import json
print(*[20 + i for i, r in enumerate(json.load(open('$W/addition-course.train.json'))['runs']) if r['metrics']['validation_accuracy'] > .97][:8])")
  echo "course learned: $good"
  set -- $good
  hd addition-course "${1:-} ${2:-} ${3:-} ${4:-}" "--split all" & hd addition-course "${5:-} ${6:-} ${7:-} ${8:-}" "--split all" &
  wait ) &
( for how in "100 7" "101 2"; do set -- $how
    $H train addition --seed $1 --set train.epochs=$2 --device cuda --out $W/part$1 --quiet --json > $W/part$1.train.json 2> $W/part$1.train.err
    python3 benchmarks/population.py $W/part$1 --out $W/population-seed$1.json --device cuda > $W/population$1.out 2>&1; echo "population $1 at $SECONDS s"
  done ) &
( while sleep 15; do ( cd $W && tar czf /tmp/part.tgz *.json *.err *.out *.gz 2>/dev/null; true; cp /tmp/part.tgz $OUT/call3.tgz ); done ) &
keeper=$!
wait $(jobs -p | grep -v "^$keeper$")
sleep 16; kill $keeper
for f in $W/*.err; do [ -s $f ] && { echo "== $f"; tail -3 $f; }; done
echo "all at $SECONDS s"
