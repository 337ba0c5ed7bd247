-- Deletes the holds of a fair mutex that its caller has seen, no matter who owns them. The
-- queue stays, and its first waiter is woken.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the queue, a list of fields
-- ARGV[1]  channel of the lock; ARGV[1]:field wakes the waiter of that field
-- ARGV[2]  command that publishes there
-- ARGV[3+] fields of the holds
--
-- Answers 1 deleted, 0 there is no lock, -1 the key is a hash but no lock's,
-- -2 all holds are others'.
-- If the message was refused, the answer is {that number, the error}.
-- A late copy of the request finds nothing, because clients of this package never reuse a field.
-- Of a lock with more than 32 fields it reads only the fields that it deletes.
local lock, queue, channel, publish = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local fields, counts = found()
if fields == 0 then
  return 0
end
for i = 1, #counts, 2 do
  if not owned(counts[i], counts[i + 1]) then
    return -1
  end
end
redis.call('llen', queue) -- fails, before anything is deleted, at a key of another type
local gone = delete(fields)
if gone == 0 then
  return -2
end
if gone == fields then
  local first = redis.call('lindex', queue, 0)
  if first then
    return tell(1, publish, channel .. ':' .. first, '0')
  end
end
return 1
