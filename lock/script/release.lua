-- Releases a hold.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- It uses only commands that are not refused when memory is out.
local lock, field, channel, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local fields = redis.pcall('hlen', lock)
-- It is not asked afterwards, because a key that is gone may not be touched while its
-- slot moves to another server of a Cluster.
local gone = fields
if type(fields) == 'number' or string.find(fields.err, 'WRONGTYPE', 1, true) then
  gone = redis.pcall('hdel', lock, field)
end
if gone ~= 1 or type(fields) ~= 'number' then
  -- A key of another type has no hold any more.
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
  return -1
end
if fields == 1 then
  -- It is released, whatever becomes of the message.
  local told = redis.pcall(publish or 'publish', channel, '0')
  if type(told) == 'table' then
    return {1, told.err}
  end
  return 1 + told
end
return 1
