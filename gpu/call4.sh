set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 OMP_NUM_THREADS=2
W=/tmp/w; mkdir -p $W
nvidia-cuda-mps-control -d >/dev/null 2>&1 || true
H="python3 -m headway"
for p in mean max multi-feature; do
( $H train sortedness-grid --seeds 0-4 --set model.encoding.name=learned --set model.encoding.table_size=16 --set model.encoding.past=clamp --set model.pooling.name=$p --device cuda --out $W/c16-$p --quiet --json > $W/c16-$p.train.json 2> $W/c16-$p.train.err
  $H lengths $W/c16-$p/* --n 1000 --device cuda --no-figures --json --quiet > $W/c16-$p.part 2> $W/c16-$p.err; mv $W/c16-$p.part $W/c16-$p.json; echo "c16 $p at $SECONDS s" ) &
done
n=addition-text-eight-heads
( $H train $n --seeds 0-5 --set train.stack_precision=bf16 --set task.order=least-significant-first --set train.steps=7000 --device cuda --out $W/$n --quiet --json > $W/$n.train.json 2> $W/$n.train.err; echo "text trained at $SECONDS s"
  for part in "0 1 2" "3 4 5"; do ( for s in $part; do
    $H heads $W/$n/$n-seed$s --thorough --no-figures --device cuda --json --quiet --examples 1000 > /dev/null 2> $W/$n-$s.err
    [ -s $W/$n/$n-seed$s/analysis/heads.json ] && gzip -c $W/$n/$n-seed$s/analysis/heads.json > $W/heads-$n-lsf-seed$s.json.gz
    echo "heads $s at $SECONDS s"; done ) & done; wait ) &
( while sleep 8; do ( cd $W; tar czf /tmp/part.tgz *.json *.err *.gz 2>/dev/null; cp /tmp/part.tgz $OUT/call4.tgz ); done ) &
keeper=$!
wait $(jobs -p | grep -v "^$keeper$")
sleep 10; kill $keeper
for f in $W/*.err; do [ -s $f ] && { echo "== $f"; tail -3 $f; }; done
echo "all at $SECONDS s"
