"""One rank of an all-reduce of known bytes by gloo, under srun: allreduce.py ADDRESS PORT MEGABYTES...

Rank 0, at ADDRESS, prints a line of JSON: {"ranks": n, "seconds": {MEGABYTES: [of each round, the ranks' mean]}}.
"""

import json
import os
import socket
import sys
import time

ROUNDS, WARM = 5, 1


def main(address, port, sizes):
    os.environ["GLOO_SOCKET_IFNAME"] = next(name for _, name in socket.if_nameindex() if name != "lo")
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    store = distributed.TCPStore(address, int(port), ranks, is_master=rank == 0)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    found = {}
    for megabytes in sizes:
        values = torch.ones(int(float(megabytes) * 1e6) // 4)
        times = torch.zeros(WARM + ROUNDS)
        for number in range(WARM + ROUNDS):
            distributed.barrier()
            begin = time.monotonic()
            distributed.all_reduce(values)
            times[number] = time.monotonic() - begin
            values.fill_(1.0)
        distributed.all_reduce(times)
        found[megabytes] = (times[WARM:] / ranks).tolist()
    if rank == 0:
        print(json.dumps({"ranks": ranks, "seconds": found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
