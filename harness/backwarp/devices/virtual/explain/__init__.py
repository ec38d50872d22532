"""Records of the runtime -> faults and figures in the student's terms."""
