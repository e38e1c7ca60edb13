set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
W=/tmp/w; mkdir -p $W
nvidia-cuda-mps-control -d >/dev/null 2>&1 || true
H="python3 -m headway"
tr_() { $H train $1 --seeds $2 --device cuda --out $W/$1 --quiet --json ${3:-} > $W/$1.train.json 2> $W/$1.train.err; echo "$1 trained at $SECONDS s"; }
hd() { # recipe, seeds, options
  for s in $2; do
    $H heads $W/$1/$1-seed$s --thorough --no-figures --device cuda --json --quiet $3 > /dev/null 2> $W/$1-$s.err
    [ -s $W/$1/$1-seed$s/analysis/heads.json ] && gzip -c $W/$1/$1-seed$s/analysis/heads.json > $W/heads-$1-seed$s.json.gz
    echo "$1 heads $s at $SECONDS s"
  done
}
ev() { $H evaluate $W/$1/$1-seed$2 --split all --device cuda --json --quiet > $W/eval-$1-seed$2.json 2>> $W/$1-$2.err; }
( tr_ addition 0-7
  ( for s in 0 1 2 3 4 5 6 7; do ev addition $s; done ) &
  hd addition "0 1 2 3" "--split all" & hd addition "4 5 6 7" "--split all" &
  python3 benchmarks/population.py $W/addition/addition-seed0 --out $W/population-seed0.json --device cuda > $W/population.out 2>&1; echo "population at $SECONDS s"
  wait ) &
( tr_ addition-course 0-19
  good=$(python3 -c "
import json,sys
print(*[s for s, r in enumerate(json.load(open('$W/addition-course.train.json'))['runs']) if r['metrics']['validation_accuracy'] > .97][:10])")
  echo "course learned: $good"
  set -- $good
  hd addition-course "${1:-} ${2:-} ${3:-} ${4:-} ${5:-}" "--split all" & hd addition-course "${6:-} ${7:-} ${8:-} ${9:-} ${10:-}" "--split all" &
  wait ) &
( tr_ addition-text-eight-heads 0-5 "--set train.stack_precision=bf16"
  hd addition-text-eight-heads "0 1 2" "--examples 1000" & hd addition-text-eight-heads "3 4 5" "--examples 1000" &
  wait ) &
( tr_ addition-four-heads 0-7
  hd addition-four-heads "0 1 2 3 4 5 6 7" "--split all" ) &
( tr_ addition-text-deep 0-1 "--set train.stack_precision=bf16"; hd addition-text-deep "0 1" "--examples 1000" ) &
( while sleep 15; do ( cd $W; ls heads-*.gz > /tmp/l 2>/dev/null; tar cf /tmp/p1.tar *.json *.err *.out 2>/dev/null; gzip -f /tmp/p1.tar; cp /tmp/p1.tar.gz $OUT/small.tgz
    tar cf $OUT/heads-a.tar.part $(grep -v "text\|course" /tmp/l) 2>/dev/null && mv $OUT/heads-a.tar.part $OUT/heads-a.tar
    tar cf $OUT/heads-b.tar.part $(grep "text" /tmp/l) 2>/dev/null && mv $OUT/heads-b.tar.part $OUT/heads-b.tar
    tar cf $OUT/heads-c.tar.part $(grep "course" /tmp/l) 2>/dev/null && mv $OUT/heads-c.tar.part $OUT/heads-c.tar
    rm -f $OUT/*.part ); done ) &
keeper=$!
wait $(jobs -p | grep -v "^$keeper$")
sleep 17; kill $keeper
for f in $W/*.err; do [ -s $f ] && { echo "== $f"; tail -3 $f; }; done
ls -la $OUT
echo "all at $SECONDS s"
