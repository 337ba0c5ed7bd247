-- Deletes a lock, whoever holds it.
--
-- KEYS[1] the lock's hash
-- ARGV[1] channel on which a release wakes waiters
-- ARGV[2] command that publishes there; publish if it is not given
--
-- Answers 1 deleted, 0 there was none, -1 the key is a hash but no lock's.
local counts = redis.call('hgetall', KEYS[1])
if #counts == 0 then
  return 0
end
for i = 1, #counts, 2 do
  -- A lock's hash maps owners, which end in a number, to counts; a read-write
  -- lock's has its mode too.
  if not (counts[i] == 'mode' and (counts[i + 1] == 'read' or counts[i + 1] == 'write'))
    and not (string.match(counts[i], ':%w+$') and string.match(counts[i + 1], '^%d+$')) then
    return -1
  end
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2] or 'publish', ARGV[1], '0')
return 1
