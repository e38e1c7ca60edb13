set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
W=/tmp/w; mkdir -p $W
nvidia-cuda-mps-control -d >/dev/null 2>&1 || true
H="python3 -m headway"
la() {
  [ -s $W/$1.json ] && return
  $H train gpu/$1.toml --seeds $2 --device cuda --out $W/$1 --quiet --json > $W/$1.train.json 2> $W/$1.train.err
  $H lengths $W/$1/* --at $3 --n 2000 --device cuda --no-figures --json --quiet > $W/$1.part 2> $W/$1.err
  [ -s $W/$1.part ] && mv $W/$1.part $W/$1.json
  echo "$1 done at $SECONDS s"
}
long() {
  $H train sortedness-long --seeds 0-9 --device cuda --out $W/sl --quiet --json > $W/sl.train.json 2> $W/sl.train.err
  echo "sl trained at $SECONDS s"
  for part in "0 1 2" "3 4 5" "6 7" "8 9"; do
    ( for s in $part; do
        $H lengths $W/sl/sortedness-long-seed$s --n 2000 --whole 50000000 --device cuda --no-figures --json --quiet > $W/sl-seed$s.json 2> $W/sl-seed$s.err
        echo "sl seed $s at $SECONDS s"
      done ) &
  done
  wait
}
tune() {
  for r in sl-1-1e-3 sl-2-1e-3 sl-2-5e-4 sl-4-5e-4 sl-1-2e-3 sl-4-1e-3 sl-1-5e-4 sl-2-2e-3 sl-4-2e-3; do
    $H train gpu/$r.toml --seeds 100-101 --device cuda --out $W/$r --quiet --json > $W/$r.train.json 2> $W/$r.train.err
    echo "$r at $SECONDS s"
  done
}
la la-base 0-4 64,128,256,1024 &
la la-nowindow 0-4 64,128,256 &
( la la-window2 0-2 64,128,256; la la-window8 0-2 64,128,256 ) &
( la la-window4 0-2 64,128,256; la la-noclip 0-2 64,128,256 ) &
( la la-kinds1 0-4 64,128,256; la la-kinds 0-4 64,128,256 ) &
( la la-table 0-2 64,128,256; la la-nocoupling 0-2 64,128,256 ) &
( la la-decoder 0-2 64,128,256; la la-selfwindow 0-2 64,128,256 ) &
long &
tune &
( while sleep 20; do ( cd $W && tar czf /tmp/part.tgz *.json *.err 2>/dev/null && cp /tmp/part.tgz $OUT/call1.tgz ); done ) &
keeper=$!
wait $(jobs -p | grep -v "^$keeper$")
kill $keeper
( cd $W && tar czf $OUT/call1.tgz *.json *.err )
nvidia-smi --query-gpu=name --format=csv
for f in $W/*.err; do [ -s $f ] && { echo "== $f"; tail -3 $f; }; done
echo "all at $SECONDS s"
