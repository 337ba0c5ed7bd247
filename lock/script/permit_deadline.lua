-- Reads the deadline of a permit.
--
-- KEYS[1] the taken permits {id: deadline in epoch ms}
-- ARGV[1] the id, 32 lower-case hexadecimal digits, see permit_free
--
-- Answers the deadline as text, or nil if there is no such permit.
local taken, id = KEYS[1], ARGV[1]
local _, deadline = known(taken, id)
return deadline
