//! The native protocol, versions 3 to 5: frames, segments, compression, messages.
