"""weft as a skill of coding agents: SKILL.md and its references, which `weft skill add` puts where agents look."""
