-- Deletes the holds of a lock that its caller has seen, no matter who owns them.
--
-- KEYS[1]  the lock's hash
-- ARGV[1]  channel on which a release wakes waiters
-- ARGV[2]  command that publishes there
-- ARGV[3+] fields of the holds
--
-- Answers 1 deleted, 0 there is no lock, -1 the key is a hash but no lock's,
-- -2 all holds are others'.
-- If the message was refused, the answer is {that number, the error}.
-- A late copy of the request finds nothing, because clients of this package never reuse a field.
-- Of a lock with more than 32 fields it reads only the fields that it deletes.
local lock, channel, publish = KEYS[1], ARGV[1], ARGV[2]
local fields, counts = found()
if fields == 0 then
  return 0
end
for i = 1, #counts, 2 do
  -- A lock's hash maps owners to counts; a read-write lock's has its mode too.
  if not (counts[i] == 'mode' and (counts[i + 1] == 'read' or counts[i + 1] == 'write'))
    and not owned(counts[i], counts[i + 1]) then
    return -1
  end
end
local gone = delete(fields)
if gone == 0 and not (fields == 1 and counts[1] == 'mode') then
  return -2
end
local left = fields - gone
if left == 1 and redis.call('hexists', lock, 'mode') == 1 then
  left = redis.call('del', lock) - 1
end
if left == 0 then
  return tell(1, publish, channel, '0')
end
return 1
