-- Removes a writer from the waiting writers.
--
-- KEYS[1] the waiting writers {writer: 1}
-- ARGV[1] name of the writer
-- ARGV[2] channel that wakes the readers that the writer kept out
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 done, 0 the writer did not wait.
-- If the message was refused, the answer is {that number, the error}.
-- The number of writers is read first: while its slot moves to another server of a Cluster, a
-- script must not touch a key that is gone.
local writers, writer, channel, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local waiting = redis.call('hlen', writers)
if redis.call('hdel', writers, writer) == 0 then
  return 0
end
if waiting == 1 then
  return tell(1, publish, channel, '1')
end
return 1
