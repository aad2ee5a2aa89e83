# Bugs that only the long suite plants (scripts/test-long mutants): each is a defect that was mended,
# planted again.

# A second lane takes the names of the first.
kvtier_patched(second_lane_takes_firsts_name PROGRAM core_test ARGS --gtest_filter=BlockNamer.*)
# Memory that a step, or a lost device, still writes.
kvtier_patched(abandoned_is_ended PROGRAM kvtier-sim ARGS --gpu-pools --seeds 200)
# One block of a new size evicts the coldest of all until some slab happens to be empty.
kvtier_patched(evict_until_a_slab_is_empty PROGRAM kvtier-sim ARGS --seeds 200)
# A holder that does not serve is asked for ever, and a locate that was not answered is forgotten.
kvtier_patched(first_holder_for_ever PROGRAM kvtier-sim ARGS --seeds 200)
kvtier_patched(unanswered_locate_forgotten PROGRAM kvtier-sim ARGS --seeds 200)
# A block of any length is leased as the longest.
kvtier_patched(longest_is_leased PROGRAM kvtier-sim ARGS --seeds 20)
# An erasure empties the GPU pool of another tenant.
kvtier_patched(erase_empties_any_pool PROGRAM agent_test ARGS --gtest_filter=EraseTenantPoolTest.*)
# Callers pile up more than their limits.
kvtier_patched(leases_of_all_sessions PROGRAM agent_test
  ARGS --gtest_filter=LeaseTest.AllSessionsOfATenant*)
# One tenant takes what others were guaranteed, and all the turns.
kvtier_patched(newcomers_are_owed_what_is_taken PROGRAM agent_test ARGS --gtest_filter=TenantShares*)
kvtier_patched(weights_ignored PROGRAM agent_test ARGS --gtest_filter=FairTurnsTest.*:LoadQueueTest.*)
kvtier_patched(streams_undivided PROGRAM agent_test ARGS --gtest_filter=StreamShares*:PeerStreamsTest.*)
kvtier_patched(fair_shares_not_held PROGRAM tier_disk_test ARGS --gtest_filter=RoomSharesModel*)
kvtier_patched(reserve_is_for_puts PROGRAM tier_disk_test
  ARGS --gtest_filter=SegmentLogTest.PutsLeave*:ReclaimSharesTest.PutsLeave*)
kvtier_patched(a_long_call_never_pauses PROGRAM agent_test ARGS --gtest_filter=FairTurnsTest.*)
# Memory that was lent is not given back, to its owner or to the system; a tenant that leases on and on keeps it;
# memory that was taken away stays registered with the disks.
kvtier_patched(guarantee_is_lent_for_good PROGRAM agent_test ARGS --gtest_filter=MemoryMoverTest.*)
kvtier_patched(guarantee_is_lent_for_good AS simulated_guarantee_is_lent_for_good
  PROGRAM kvtier-sim ARGS --seeds 60)
kvtier_patched(guarantee_is_lent_for_good AS shares_without_guarantees
  PROGRAM tier_host_test ARGS --gtest_filter=HostSharesModelTest.*)
kvtier_patched(full_tenants_want_no_more AS shares_of_full_tenants
  PROGRAM tier_host_test ARGS --gtest_filter=HostSharesModelTest.*)
kvtier_patched(full_tenants_want_no_more PROGRAM kvtier-sim ARGS --seeds 60)
kvtier_patched(memory_is_not_given_back PROGRAM agent_test ARGS --gtest_filter=MemoryMoverTest.*)
kvtier_patched(leaving_blocks_are_leased PROGRAM agent_test ARGS --gtest_filter=MemoryMoverTest.*)
kvtier_patched(removed_memory_stays_pinned PROGRAM tier_disk_test ARGS --gtest_filter=*RealDiskTest*)
# A slab takes worthier blocks along than the tenant's others are; a put evicts the prefix that it continues, and
# asks for room behind a hole.
kvtier_patched(slab_takes_all_along PROGRAM agent_test ARGS --gtest_filter=MemoryMoverTest.*)
kvtier_patched(put_evicts_its_prefix PROGRAM agent_test ARGS --gtest_filter=PutTest.NothingOf*)
kvtier_patched(asks_behind_a_hole PROGRAM agent_test ARGS --gtest_filter=PausesTest.Behind*)
# A kept block is evicted; the descendants of a dropped prefix stay.
kvtier_patched(kept_is_evicted PROGRAM agent_test ARGS --gtest_filter=KeepPrefixTest.WhatIsKept*)
kvtier_patched(descendants_stay PROGRAM agent_test ARGS --gtest_filter=DeleteBlocksTest.WhatDescends*)
# A swapped sequence comes back before one of a higher priority, or outlives its session; a tenant swaps out more than
# its quota.
kvtier_patched(swap_line_by_age PROGRAM agent_test ARGS --gtest_filter=SwapLineTest.*)
kvtier_patched(swap_outlives_session PROGRAM agent_test ARGS --gtest_filter=SwapTest.TheEndOfTheSessionDrops*)
kvtier_patched(swap_beyond_quota PROGRAM agent_test ARGS --gtest_filter=SwapTest.BeyondTheQuota*)
# A name that comes again finds blocks of its dropped self in an arena that is not its own.
kvtier_patched(dropped_name_comes_at_once PROGRAM agent_test ARGS --gtest_filter=NodeTenants*)
# Tenants' GPU pools together have more than the GPU's memory.
kvtier_patched(pools_grow_beyond_the_gpu PROGRAM agent_test
  ARGS --gtest_filter=GpuDividerTest.PoolsFollow*)
# Members of a share group take of the group's share.
kvtier_patched(the_group_pays PROGRAM agent_test ARGS --gtest_filter=ShareGroupsTest.WhatASession*)
# A look at a queue forgets what the looks before it relied on.
kvtier_patched(youngest_of_the_last_look PROGRAM core_test ARGS --gtest_filter=WorthQueuesTest.*)
# A coordinator that lost its settings undoes what nodes know: by an older copy of them, by others
# that were begun again, or by changes before an operator said what became of them.
kvtier_patched(older_settings_taken PROGRAM agent_test ARGS --gtest_filter=NodeTenants*)
kvtier_patched(another_store_is_followed PROGRAM coordinator_test
  ARGS --gtest_filter=CoordinatorTest.WhatANodeFollows*)
kvtier_patched(unknown_settings_are_changed PROGRAM settings_store_test
  ARGS --gtest_filter=SettingsStoreTest.InANewDirectory*)
# A stop of the agent waits for a worker's step.
kvtier_patched(stop_awaits_steps PROGRAM agent_test ARGS --gtest_filter=StopTest.*)
# A disk that lost a file of its manifest is refused, a tenant needs no secret, and two agents of one name take turns.
kvtier_patched(lost_manifest_refused PROGRAM tier_disk_test
  ARGS --gtest_filter=DiskDirectoryTest.AManifestThatLostAFileIsTheSameDiskMadeAnew)
kvtier_patched(tenant_without_secret PROGRAM agent_config_test)
# A secret that every user of the node may read is taken, and so is the first half of one.
kvtier_patched(secret_for_everybody PROGRAM agent_config_test ARGS --gtest_filter=TenantsDirTest.*)
kvtier_patched(half_written_secret PROGRAM core_test ARGS --gtest_filter=SecretFileTest.*)
kvtier_patched(namesakes_alternate PROGRAM coordinator_test ARGS --gtest_filter=CoordinatorModel.*)
# A block that is copied into a slot leaves earlier bytes behind itself there.
kvtier_patched(copied_tail_kept PROGRAM client_session_test ARGS --gtest_filter=BlockCopy.*)
# Lanes of host memory call a block loaded whose lease ended, and publish what was read from slots
# that the engine has back.
kvtier_patched(ended_lease_arrives PROGRAM host_lanes_test
  ARGS --gtest_filter=HostLanesFailureTest.ALeaseThatEnds*)
kvtier_patched(asked_back_is_published PROGRAM host_lanes_test
  ARGS --gtest_filter=HostLanesFailureTest.WhatWasAskedBack*)
# Lanes of host memory do not ask for the rest of a run that is longer than host memory, or the agent calls blocks
# without room absent.
kvtier_patched(rest_is_not_asked_for PROGRAM host_lanes_test
  ARGS --gtest_filter=HostLanesTest.ARunLonger*)
kvtier_patched(no_room_is_said_absent PROGRAM kvtier-agent RUN integration_lanes_test
  ARGS --gtest_filter=HostLanesNodeTest.ARunLonger*)
# Lanes of host memory publish a block that the codec cannot encode.
kvtier_patched(unencodable_is_published PROGRAM host_lanes_test
  ARGS --gtest_filter=HostLanesCodecTest.ABlockWithANan*)
# Lanes on a device publish slots that the engine asked back, and do not wait for the engine's stream.
kvtier_patched(asked_back_of_a_device_is_published PROGRAM device_lanes_test
  ARGS --gtest_filter=DeviceLanesTest.SlotsThatAreAskedBack*)
if(TARGET device_lanes_on_fake_test)
  kvtier_patched(compute_is_overtaken PROGRAM device_lanes_on_fake_test
    ARGS --gtest_filter=DeviceLanesOnFakeTest.AnOnboardWritesNothing*)
endif()
# Blocks that are encoded or decoded on a device skip the events between its streams, or run ahead of the word that
# their lane awaits, or leave earlier bytes behind an encoding.
if(TARGET cuda_device_on_fake_test)
  foreach(bug emptied_before_filled filled_before_emptied ahead_of_the_fence rests_not_zeroed)
    kvtier_patched(${bug} PROGRAM cuda_device_on_fake_test
      ARGS --gtest_filter=*BlockBatchTest.*)
  endforeach()
  # A word is written behind a copy that CUDA refused.
  kvtier_patched(signal_behind_refused_copy PROGRAM cuda_device_on_fake_test
    ARGS --gtest_filter=CudaFaultsTest.NoWordIsWritten*)
endif()
# A pool's copies go over the borders of its handles.
kvtier_patched(copies_over_handles PROGRAM tier_gpu_test ARGS --gtest_filter=GpuPoolTest.*)
# Bytes that lie behind a block in its slot go to disk with it.
kvtier_patched(old_bytes_behind_a_peers_block PROGRAM agent_test
  ARGS --gtest_filter=FetchTest.NothingOfAnOlderBlock*)
# Host memory refuses a block that its disks would take.
kvtier_patched(refused_above_a_disk PROGRAM kvtier-sim ARGS --seeds 60)
# Host memory's order does not hear of what disks take and drop.
kvtier_patched(disk_copies_untold PROGRAM agent_test ARGS --gtest_filter=ReuseHintsTest.*)
# Damaged lessons of an order of eviction are taken.
kvtier_patched(damaged_lessons_taken PROGRAM core_test
  ARGS --gtest_filter=ReuseLessonsTest.EveryTruncation*)
# A slot that nobody wrote is published, and a block that another worker is writing is called present.
kvtier_patched(unwritten_is_published PROGRAM kvtier-agent RUN integration_node_test
  ARGS --gtest_filter=OneNodeTest.SlotsThatNobodyTook*)
kvtier_patched(pending_is_present PROGRAM agent_test ARGS --gtest_filter=PutTest.*)
# A token id of -1 is hashed as another.
kvtier_patched(wrapped_token PROGRAM client_session_test ARGS --gtest_filter=*TokenKeys*)
# A session that has ended still counts among those that share a space; a field of a space is not compared.
kvtier_patched(space_outlives_session PROGRAM agent_test ARGS --gtest_filter=SessionTableSpaces*)
kvtier_patched(field_not_compared PROGRAM cli_test ARGS --gtest_filter=SpaceFindings*)
# Workers believe a residency table that was replaced, or one that lacks blocks without room, or one in which such a
# block is just getting an entry.
kvtier_patched(retired_table_believed PROGRAM client_test
  ARGS --gtest_filter=ClientResidencyTest.ALargerTable*)
kvtier_patched(overflow_is_absent PROGRAM residency_test
  ARGS --gtest_filter=FullResidencyModelTest.*)
kvtier_patched(uncounted_before_written PROGRAM residency_kill_points_test)
# Six in ten runs of the short length find it.
set_tests_properties(mutant_uncounted_before_written PROPERTIES ENVIRONMENT KVTIER_KILL_ROUNDS=20)

# A put is acknowledged before it is durable: a kill at that place must show it, too.
kvtier_patched(publish_before_commit AS kill_published PROGRAM disk_kill_points_test)
# Bugs with slots that a step may still use. Worlds of GPU pools must catch them, too.
kvtier_patched(release_before_step PROGRAM kvtier-sim ARGS --seeds 60)
kvtier_patched(retired_unseen PROGRAM kvtier-sim ARGS --seeds 60)
kvtier_patched(free_late_slots PROGRAM kvtier-sim ARGS --seeds 60)
foreach(bug commit_before_step release_before_step retired_unseen free_late_slots)
  kvtier_expect(caught mutant_${bug}_in_pools $<TARGET_FILE:mutant_${bug}> --gpu-pools --seeds 1000)
endforeach()
# These need their own tests: the simulator's workers write nothing after they hung up.
kvtier_patched(detach_at_hangup PROGRAM agent_test ARGS --gtest_filter=GpuStepsTest.*)
kvtier_patched(free_at_hangup PROGRAM agent_test ARGS --gtest_filter=Hangup*)
# Tables of the GPU pool, held against a reference.
kvtier_patched(old_names_return PROGRAM block_table_model_test)
kvtier_patched(reuse_before_retire PROGRAM block_table_model_test)

# A slot that a step still writes is given back, and grants end with their session.
kvtier_patched(give_back_in_step PROGRAM kvtier-sim ARGS --seeds 200)
kvtier_patched(grants_end_with_session PROGRAM agent_test ARGS --gtest_filter=SlotGrantsTest.*)
# A lost device may go on with a copy that is called ended, and a state that the client does not know is taken for
# "present".
kvtier_patched(abandoned_behind_failure PROGRAM tier_gpu_test
  ARGS --gtest_filter=LaneRunnerTest.ACopyIsAbandonedIfTheDeviceHadAnyOfIt)
kvtier_patched(unknown_is_present PROGRAM client_test)
# A holder that does not serve gets all the time and all the fetches, though others would serve.
kvtier_patched(whole_time_to_one_holder PROGRAM kvtier-sim ARGS --seeds 200)
kvtier_patched(failure_teaches_nothing PROGRAM agent_test ARGS --gtest_filter=FetchTest.*:HungPeersTest.*)
# The coordinator is not told which holders hang, or only by the next request; a peer that is busy is avoided; the calls
# of one node leave no room for another's.
kvtier_patched(avoided_untold PROGRAM agent_test ARGS --gtest_filter=HungPeersTest.*)
kvtier_patched(others_not_asked_for PROGRAM agent_test ARGS --gtest_filter=HungPeersTest.*)
kvtier_patched(busy_is_a_failure PROGRAM agent_test ARGS --gtest_filter=FetchLineTest.*)
if(TARGET coordinator_service_test)
  kvtier_patched(most_waiting_keeps_its_room PROGRAM coordinator_service_test
    ARGS --gtest_filter=CallLineTest.*)
endif()
kvtier_patched(no_share_of_fetches PROGRAM agent_test ARGS --gtest_filter=FetchTest.*)
# A forked child works with the parent's channel, sockets and memory.
kvtier_patched(fork_keeps_descriptors PROGRAM kvtier-forking-worker RUN integration_fork_test
  ARGS --gtest_filter=ForkedWorkerTest.AChildThatLivesOnDoesNotHideItsParentsDeath)
kvtier_patched(fork_keeps_memory PROGRAM kvtier-forking-worker RUN integration_fork_test
  ARGS --gtest_filter=ForkedWorkerTest.AForkedChildMissesAndItsParentNeverNotices)
# In a forked child, destructors of lanes wait for a thread that the child does not have.
kvtier_patched(fork_hangs_lanes PROGRAM worker_lanes_test
  ARGS --gtest_filter=WorkerPoolFailureTest.AForkedChildDropsPoolAndLanesWithoutWaiting)
# A connection that does not work is kept for ever.
kvtier_patched(garbled_connection_kept PROGRAM client_failure_test
  ARGS --gtest_filter=ClientFailureTest.AConnectionThatAnswersUnknownOrInternalIsMadeAnew)
kvtier_patched(failing_connection_kept PROGRAM client_failure_test
  ARGS --gtest_filter=ClientFailureTest.AConnectionThatFailsSeveralTrialsIsMadeAnew)
kvtier_patched(erased_load_arrives PROGRAM agent_test ARGS --gtest_filter=EraseTenantClearTest.*)

# Operators' calls are answered at the wrong doors, or to the wrong users.
kvtier_patched(admin_over_tcp PROGRAM kvtier-agent RUN integration_doors_test
  ARGS --gtest_filter=DoorsTest.AWorkerOrAPeer*:DoorsTest.TheStatusOverTcp*)
kvtier_patched(coordinator_admin_over_tcp PROGRAM kvtier-coordinator RUN integration_doors_test
  ARGS --gtest_filter=DoorsTest.EveryRpc*)
kvtier_patched(any_user_enters PROGRAM rpc_door_test ARGS --gtest_filter=*AUserThatIsNotOnTheList*)
kvtier_patched(socket_wide_for_a_moment PROGRAM core_test ARGS --gtest_filter=*NobodySeesTheFile*)
# A coordinator that is reached and does not answer is waited for again and again.
kvtier_patched(lost_coordinator_is_asked PROGRAM kvtier-sim ARGS --seeds 200)
kvtier_patched(locate_without_history PROGRAM agent_test
  ARGS --gtest_filter=LocatePatienceTest.*:FrozenCoordinatorTest.*)
kvtier_patched(locate_retried_at_each_report PROGRAM agent_test
  ARGS --gtest_filter=LocatePatienceTest.*)
# The client commits slots that the worker did not write.
kvtier_patched(commit_untaken PROGRAM client_test)
# One rank takes what a ticket holds twice.
kvtier_patched(ticket_redeemed_twice PROGRAM agent_test ARGS --gtest_filter=TicketsTest.*)
# A caller with no time to wait is not told what is there.
kvtier_patched(no_time_sends_nothing PROGRAM client_test
  ARGS --gtest_filter=ClientTimeoutsTest.*)
# Bytes that lie behind a block in its slot go to disk with it.
kvtier_patched(padding_handed_on PROGRAM tier_disk_test
  ARGS --gtest_filter=DiskTierTest.WhatLiesBehind*)
# A peer that does not read keeps its stream.
kvtier_patched(reader_holds_stream PROGRAM kvtier-agent RUN integration_edge_test
  ARGS --gtest_filter=SilentPeersTest.HoldNoPlace*)
# Writes are acknowledged on a disk that was moved away, a commit is durable on a disk that does not confirm, and a
# manifest that lost rows is believed.
kvtier_patched(moved_disk_acknowledged PROGRAM tier_disk_test ARGS --gtest_filter=DiskInPlaceTest.NoPut*)
kvtier_patched(unconfirmed_is_durable PROGRAM agent_test ARGS --gtest_filter=DurableCommitTest.*)
kvtier_patched(lost_rows_unseen PROGRAM tier_disk_test ARGS --gtest_filter=DiskInPlaceTest.ADiskWith*)
# A disk is emptied by an error of the file system that may be temporary.
kvtier_patched(unread_manifest_given_up PROGRAM tier_disk_test
  ARGS --gtest_filter=DiskDirectoryTest.ADamagedManifestIsGivenUpOnlyWhenAllOfItCanBeRead)
# A directory of tenants that is empty, or a file, opens a tenant without a secret.
kvtier_patched(unmounted_tenants_open PROGRAM agent_config_test)
kvtier_patched(stop_keeps_onboards PROGRAM agent_test ARGS --gtest_filter=StopTest.*)
kvtier_patched(stop_keeps_callers PROGRAM kvtier-agent RUN integration_edge_test
  ARGS --gtest_filter=ProgramsTest.SigtermStopsAnAgentWhileACommitWaitsForItsStep)
kvtier_patched(abandoned_is_given_back PROGRAM worker_lanes_test
  ARGS --gtest_filter=WorkerPoolFailureTest.*)
# Puts take room without a look at what was promised.
kvtier_patched(put_beyond_promises PROGRAM kvtier-sim ARGS --seeds 200)

# Callers pile up more than their limits.
kvtier_patched(memory_not_watched PROGRAM rpc_door_test ARGS --gtest_filter=*WhileMemoryIsShort*)
kvtier_patched(floods_stay PROGRAM rpc_door_test ARGS --gtest_filter=DoorFloodsTest.ACallerThatResets*)
kvtier_patched(unread_answers_stay PROGRAM agent_rpc_test
  ARGS --gtest_filter=*ACallWhoseAnswerNobodyReads*)
kvtier_patched(parts_outlive_session PROGRAM agent_test
  ARGS --gtest_filter=OnboardPartsTest.TheEndOfItsSession*)
kvtier_patched(peer_buffers_unbounded PROGRAM agent_test
  ARGS --gtest_filter=ServePeerTest.BuffersOfBlocks*)
kvtier_patched(door_without_end PROGRAM rpc_door_test ARGS --gtest_filter=*OneConnectionTooMany*)
kvtier_patched(place_free_early PROGRAM rpc_door_test ARGS --gtest_filter=*UntilItsCallsAreGone*)
kvtier_patched(caller_takes_all_places PROGRAM rpc_door_test ARGS --gtest_filter=*OneCallerDoesNot*)

# A full disk writes at a fraction of its speed: reclaim writes again what nobody asks for, and one block at a time.
kvtier_patched(writes_what_nobody_wants_again PROGRAM tier_disk_test
  ARGS --gtest_filter=DiskEvictionTest.WhatWasOnlyPut*)
kvtier_patched(survivors_one_by_one PROGRAM tier_disk_test
  ARGS --gtest_filter=DiskEvictionTest.SurvivorsAreCopied*)
