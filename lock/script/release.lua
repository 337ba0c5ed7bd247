-- Releases a hold.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 + the number of subscribers that got the message: released; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- It uses only commands that Redis does not refuse when its memory is full.
local lock, field, channel, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local fields = redis.pcall('hlen', lock)
-- The number is read before the hold goes: while its slot moves to another server of a Cluster,
-- a script must not touch a key that is gone.
local gone = fields
if type(fields) == 'number' or string.find(fields.err, 'WRONGTYPE', 1, true) then
  gone = redis.pcall('hdel', lock, field)
end
if gone ~= 1 or type(fields) ~= 'number' then
  -- A key of another type has lost its hold.
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
  return -1
end
if fields == 1 then
  -- The lock is released even if the message is refused.
  local told = redis.pcall(publish or 'publish', channel, '0')
  if type(told) == 'table' then
    return {1, told.err}
  end
  return 1 + told
end
return 1
