"""The console: pages of the admin port for people. Server-rendered; scripts only add to what reads without them."""
