"""What is learnt of a wrong kernel by running it once more in another way: a module for each way."""
