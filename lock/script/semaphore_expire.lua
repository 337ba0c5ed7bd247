-- Sets how long a semaphore lives, once however often the request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] of a semaphore whose permits expire: those that are taken
-- ARGV[1] how long from now, in ms
-- ARGV[2] how long the result is remembered, in ms
--
-- Answers 1 done, 0 there is no such semaphore.
local n, text = counter(KEYS[1])
if not n then
  return text
end
if KEYS[3] then
  redis.call('zcard', KEYS[3]) -- fails at a key of another type, whose end is no matter of ours
end
redis.call('del', KEYS[2]) -- a write, so that memory that is out does not refuse what follows
local set, never = remember(text and 1 or 0, ARGV[2], 'pexpire', KEYS[1], ARGV[1])
if not set then
  return never
end
if set == 1 and KEYS[3] then
  redis.call('pexpire', KEYS[3], ARGV[1]) -- one that comes later gets what is left, see permit_take
end
return set
