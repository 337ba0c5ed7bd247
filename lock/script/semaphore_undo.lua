-- Gives back what a take brought, and keeps one that is still to arrive from
-- taking anything. A semaphore that was deleted meanwhile stays deleted.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the take's result
-- ARGV[1] channel on which free permits are published
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers how many permits the take had brought.
-- If the message was refused, the answer is {that number, the error}.
local taken, text = redis.call('get', KEYS[2]) or '0', nil
if taken ~= '0' then
  local n
  n, text = counter(KEYS[1])
  if not n then
    return text
  end
end
-- The take's result lives longer: a write, so that memory that is out does not refuse what follows.
redis.pcall('pexpire', KEYS[2], ARGV[2])
local free = text and redis.call('incrby', KEYS[1], taken)
local never = redis.pcall('set', KEYS[2], '0', 'px', ARGV[2])
if never.err then -- a copy of this request would give back what the take brought once more
  if free then
    redis.call('incrby', KEYS[1], '-' .. taken)
  end
  return never
end
if free then
  return tell(tonumber(taken), ARGV[3], ARGV[1], string.format('%.0f', free))
end
return tonumber(taken)
