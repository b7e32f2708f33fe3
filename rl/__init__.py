"""Reinforcement learning of flow-matching image generators: samplers, rollouts, rewards, losses, trainers."""

PROJECT = "gnomon"  # lets the command line tell this package from an unrelated one of the same name
