-- Deletes a read-write lock, whoever holds it.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the writers that wait {writer: 1}
-- ARGV[1] channel on which a release wakes waiters
-- ARGV[2] command that publishes there; publish if it is not given
--
-- Answers 1 deleted, 0 there was none, -1 the key is a hash but no read-write
-- lock's. The timeouts of readers, which are nothing by themselves, expire.
local fields = redis.call('hgetall', KEYS[1])
if #fields == 0 then
  return 0
end
local mode = redis.call('hget', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return -1
end
for i = 1, #fields, 2 do
  -- Owners end in a number, writers in a word.
  if fields[i] ~= 'mode'
    and not (string.match(fields[i], ':%w+$') and string.match(fields[i + 1], '^%d+$')) then
    return -1
  end
end
redis.call('del', KEYS[1], KEYS[2])
redis.pcall(ARGV[2] or 'publish', ARGV[1], '1')
return 1
