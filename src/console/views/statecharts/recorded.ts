import type { Machine, Transition } from '../../../protocol/wire/admin/inspect.ts'
import type { RequestStory } from '../../../protocol/wire/admin/requests.ts'
import { useLoad } from '../../state/load.ts'

/** Newest first: the way of an instance whose chart never ran, from its record. null: it runs, or is not known yet. */
export function useRecorded({ machine, recorded }: Machine, id: string | null): readonly Transition[] | null {
  const path = recorded && id !== null ? `/v1/admin/requests/${encodeURIComponent(id)}` : null
  const [story] = useLoad<RequestStory>(path)
  if (path === null || story.kind !== 'ready') return null
  const { request, states } = story.data
  const began = Date.parse(request.at)
  return states
    .map(({ state, event, at_ms }, at) => ({
      machine,
      id: request.request_id,
      from: states[at - 1]?.state ?? null,
      to: state,
      event,
      at: new Date(began + at_ms).toISOString(),
    }))
    .toReversed()
}
