-- Releases a read hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the hold's timeout
-- KEYS[3] the waiting writers {writer: 1}
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] prefix of the names of timeouts
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers that got the message: released; -1 the hold is gone. It is
-- also gone if its timeout is over, while other readers keep the hash.
-- If the message was refused, the answer is {that number, the error}.
-- The lock's TTL becomes that of the longest timeout of the remaining readers, with Redisson's.
-- It stays as it is while the owner of this hold also writes, and while there are many readers,
-- see rw_fields.
-- It uses only commands that Redis does not refuse when its memory is full.
local lock, timeoutKey, field = KEYS[1], KEYS[2], ARGV[1]
writers, channel, publish, prefix = KEYS[3], ARGV[2], ARGV[4] or 'publish', ARGV[3]
local ended, unsure = gone(lock, field)
if ended then
  if not unsure then
    redis.call('del', timeoutKey)
  end
  return unsure or -1
end
local isOver = redis.call('exists', timeoutKey) == 0
local mode, writing, longest = rest({field, [field] = true})
redis.call('hdel', lock, '') -- fails here if HDEL is forbidden; after a first write, full memory refuses nothing
redis.call('del', timeoutKey)
redis.call('hdel', lock, field)
local told, refusal = settle(mode, writing, longest)
if refusal then
  return {isOver and -1 or 1, refusal}
end
return isOver and -1 or 1 + told
