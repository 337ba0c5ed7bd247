-- Gives permits back.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the taken permits {id: deadline in epoch ms}
-- ARGV[1] the permits: 12 bytes and their number, see permit_take
-- ARGV[2] channel on which free permits are published
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 all were taken and are free now; -1 some were gone, the rest is free now.
-- Full memory refuses none of it.
-- If the message was refused, the answer is {that number, the error}.
local semaphore, taken = KEYS[1], KEYS[2]
local permits, channel, publish = ARGV[1], ARGV[2], ARGV[3]
local free, refused = counter(semaphore)
if not free then
  return refused
end
local members = numbered(permits)
local back, now = giveBack(semaphore, taken, members)
if not back then
  if string.find(now.err, 'WRONGTYPE', 1, true) then
    return -1 -- a key of another type has lost its permits
  end
  return now
end
if back > 0 then
  free = now
  return tell(back == #members and 1 or -1, publish, channel, string.format('%.0f', free))
end
if back == #members then
  return 1
end
return -1
