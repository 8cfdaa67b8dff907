"""One partition as its leader sees it, and those who wait for it to grow. Pure: no loop, no socket, no clock."""
