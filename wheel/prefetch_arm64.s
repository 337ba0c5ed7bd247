#include "textflag.h"

// func prefetch(t *Timer)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD t+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET
