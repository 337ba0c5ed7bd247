-- Before Redis 7 a script that asks what may differ on a replica, such as a TTL, may not write
-- any more, if its server replicates scripts as they are (lua-replicate-commands no). This
-- stands before scripts that do, and have no time limit.
if redis.replicate_commands then
  redis.replicate_commands()
end
