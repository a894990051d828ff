//! CQL: lexer, AST, parser, analysis and plans. No I/O.
