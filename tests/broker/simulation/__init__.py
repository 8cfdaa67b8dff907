"""A cluster in one process: simulated ZooKeeper, network, clocks and disks, driven by one seed."""
