-- Opens a latch whatever its count, once however often the request arrives.
--
-- KEYS[1] the latch's count; there is none while it is open
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the latch's channel
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers 1 done, 0 the latch was open.
-- If the message was refused, the answer is {that number, the error}.
local latch, resultKey, channel, keepFor, publish = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local n, text = counter(latch)
if not n then
  return text
end
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
local gone, refused = remember(text and 1 or 0, keepFor, 'del', latch)
if not gone then
  return refused
end
if gone == 1 then
  return tell(gone, publish, channel, '1') -- Redisson's word for "deleted", and for "closed"
end
return gone
