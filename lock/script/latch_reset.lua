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
local n, text = counter(KEYS[1])
if not n then
  return text
end
redis.call('del', KEYS[2]) -- a write, so that memory that is out does not refuse what follows
local gone, refused = remember(text and 1 or 0, ARGV[2], 'del', KEYS[1])
if not gone then
  return refused
end
if gone == 1 then
  return tell(gone, ARGV[3], ARGV[1], '1') -- Redisson's word for "deleted", and for "closed"
end
return gone
