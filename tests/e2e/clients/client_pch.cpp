// Empty: its precompiled header is what is wanted.
