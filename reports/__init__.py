"""Results of a run as data, and the pages made from them."""
