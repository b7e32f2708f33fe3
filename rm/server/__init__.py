"""A judge behind HTTP: `gnomon rm serve`; :mod:`rm.service` is what goes over the wire."""
