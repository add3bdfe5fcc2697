"""Terms as ids, and elements, windows, graphs and indexes as columns of them."""
