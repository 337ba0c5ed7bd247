-- Deletes a fair mutex, whoever holds it; the queue stays, and its first is
-- woken.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the queue, a list of fields
-- ARGV[1] channel of the lock; ARGV[1]:field wakes the waiter of that field
-- ARGV[2] command that publishes there; publish if it is not given
--
-- Answers 1 deleted, 0 there was none, -1 the key is a hash but no lock's.
local counts = redis.call('hgetall', KEYS[1])
if #counts == 0 then
  return 0
end
for i = 1, #counts, 2 do
  -- A lock's hash maps owners, which end in a number, to counts.
  if not (string.match(counts[i], ':%w+$') and string.match(counts[i + 1], '^%d+$')) then
    return -1
  end
end
redis.call('del', KEYS[1])
local first = redis.call('lindex', KEYS[2], 0)
if first then
  redis.pcall(ARGV[2] or 'publish', ARGV[1] .. ':' .. first, '0')
end
return 1
