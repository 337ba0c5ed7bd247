-- Deletes the holds of a read-write lock that its caller has seen, no matter who owns them.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the waiting writers {writer: 1}
-- ARGV[1]  channel on which a release wakes waiters
-- ARGV[2]  command that publishes there
-- ARGV[3]  prefix of the names of timeouts
-- ARGV[4+] fields of the holds
--
-- Answers 1 deleted, 0 there is no lock, -1 the key is a hash but no read-write
-- lock's, -2 all holds are others'. The timeouts of readers mean nothing without the lock, and
-- expire.
-- If the message was refused, the answer is {that number, the error}.
-- A late copy of the request finds nothing, because clients of this package never reuse a field.
local lock = KEYS[1]
writers, channel, publish, prefix, word = KEYS[2], ARGV[1], ARGV[2], ARGV[3], '1'
local fields = redis.call('hlen', lock)
if fields == 0 then
  return 0
end
local mode = redis.call('hget', lock, 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return -1
end
local go, gone = going(4), 0
local known = {}
if not crowded({}) then
  known = redis.call('hgetall', lock)
else -- of a large lock it reads only the fields that it deletes
  for _, field in ipairs(go) do
    known[#known + 1] = field
    known[#known + 1] = redis.call('hget', lock, field) or '1'
  end
end
for i = 1, #known, 2 do
  -- Owners end in a number, writers in a word.
  if known[i] ~= 'mode' and not owners(known[i], known[i + 1]) then
    return -1
  end
end
local was, writing, longest = rest(go)
for i = 4, #ARGV do
  gone = gone + redis.call('hdel', lock, ARGV[i])
end
local others = gone == 0 and fields > 1
if others and not buried then
  return -2
end
if longest == 0 and not writing then
  redis.call('del', writers)
  writers = nil
end
local _, refusal = settle(was, writing, longest)
local answer = others and -2 or 1
return refusal and {answer, refusal} or answer
