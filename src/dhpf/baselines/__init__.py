"""Methods to compare with. Static hyperpixels themselves are ``dhpf.model.network.HPF``."""
