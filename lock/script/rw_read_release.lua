-- Releases a read hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the hold's timeout
-- KEYS[3] the writers that wait {writer: 1}
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] what the names of timeouts begin with
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- The lock stays for as long as the longest of the holds that remain: those of
-- readers as their timeouts say, Redisson's among them, that of a writer, whose
-- reader this was, unchanged. While many read it stays as it is, see rw_fields.
-- It uses only commands that are not refused when memory is out.
local lock, timeoutKey, field = KEYS[1], KEYS[2], ARGV[1]
writers, channel, publish, prefix = KEYS[3], ARGV[2], ARGV[4] or 'publish', ARGV[3]
local ended, unsure = gone(lock, field)
if ended then
  if not unsure then
    redis.call('del', timeoutKey)
  end
  return unsure or -1
end
local mode, writing, longest = rest({field, [field] = true})
redis.call('hdel', lock, '') -- may both be called? And a write, so that memory that is out does not refuse what follows
redis.call('del', timeoutKey)
redis.call('hdel', lock, field)
local told, refusal = settle(mode, writing, longest)
if refusal then
  return {1, refusal}
end
return 1 + told
