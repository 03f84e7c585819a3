import { Polls } from '../../protocol/wire/admin/processes.ts'
import type { AskLeader } from '../polls/shared-polls.ts'
import type { Siblings } from './siblings.ts'

/** Asks the siblings for polls. One that does not lead, or that is of an earlier version, has no such route. */
export const askLeaderOf =
  (siblings: Pick<Siblings, 'first'>): AskLeader =>
  async (leader, since, withinMs) => {
    // Who leads is asked again soon: it may be another one by then.
    const [names, waitMs] = leader === null ? [null, undefined] : [[leader], withinMs]
    const said = await siblings.first(names, 'polls', { since: String(since) }, Polls, waitMs)
    return said === null ? null : { leader: said.name, polls: said.answer }
  }
