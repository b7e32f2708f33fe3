"""How far a judge agrees with people about pictures that both rated: `gnomon bench alignment`."""
