"""A Ray cluster of three nodes on this machine, for as long as standard input is open: `python ray_cluster.py`.

Its head has no cores, so that trials run on the two others. It prints its address.
"""

import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    print(cluster.address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the kernel ends its nodes with it
