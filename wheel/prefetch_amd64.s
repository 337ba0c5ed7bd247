#include "textflag.h"

// func prefetch(t *Timer)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ       t+0(FP), AX
	PREFETCHT0 (AX)
	RET
