-- Releases a write hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the waiting writers {writer: 1}
-- ARGV[1] field of the hold
-- ARGV[2] channel on which a release wakes waiters
-- ARGV[3] prefix of the names of timeouts
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers that got the message: released; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- If the owner also reads, the lock becomes a read lock. Readers get a turn before waiting
-- writers keep them out again.
local lock, field = KEYS[1], ARGV[1]
writers, channel, publish, prefix = KEYS[2], ARGV[2], ARGV[4] or 'publish', ARGV[3]
local ended, unsure = gone(lock, field)
if ended then
  return unsure or -1
end
local mode, writing, longest = rest({field, [field] = true})
-- The steps of settle that may be refused are done here, first.
redis.call('hdel', lock, '') -- after a first write, full memory refuses nothing more
if mode == 'write' and not writing then
  if longest > 0 then
    redis.call('hset', lock, 'mode', 'read')
  end
  local gone = redis.pcall('del', writers)
  if type(gone) == 'table' then
    if longest > 0 then
      redis.call('hset', lock, 'mode', 'write')
    end
    return gone
  end
  writers = nil
end
redis.call('hdel', lock, field)
local told, refusal = settle(mode, writing, longest)
if refusal then
  return {1, refusal}
end
return 1 + told
