import { useSignalEffect } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { Transition, TransitionList } from '../../protocol/wire/admin/inspect.ts'
import { moved } from '../state/live.ts'
import { type Loaded, useLoad } from '../state/load.ts'
import { clockTime, duration } from './format.ts'
import { Frame } from './frame.tsx'

/** How many transitions the gateway keeps for one chart. */
const keptMax = 1_000

const keyOf = ({ id, at, from, to }: Transition) => `${id} ${at} ${from} ${to}`

/** Newest first: the transitions that were read, preceded by those that arrived since. */
export function useTransitions(machine: string): readonly [Loaded<readonly Transition[]>, () => void] {
  const [read, again] = useLoad<TransitionList>(`/v1/admin/machines/${machine}/transitions?limit=${keptMax}`)
  const [fresh, setFresh] = useState<readonly Transition[]>([])
  useEffect(() => setFresh([]), [machine])
  useSignalEffect(() => {
    const mine = moved.value.filter((each) => each.machine === machine).toReversed()
    if (mine.length > 0) setFresh((before) => [...mine, ...before].slice(0, keptMax))
  })
  if (read.kind !== 'ready') return [read, again]
  const known = new Set(read.data.transitions.map(keyOf))
  const data = [
    ...fresh.filter((each) => each.machine === machine && !known.has(keyOf(each))),
    ...read.data.transitions,
  ]
  return [{ kind: 'ready', data }, again]
}

/** A round of a durable chart begins with its claim. Newest first, as `transitions`. */
function roundsOf(transitions: readonly Transition[]): readonly Transition[][] {
  const rounds: Transition[][] = [[]]
  for (const transition of transitions) {
    rounds.at(-1)?.push(transition)
    if (transition.event === 'claimed') rounds.push([])
  }
  return rounds
}
const way = (round: readonly Transition[]) => round.map(({ event, to }) => `${event} ${to}`).join('\n')

/** Removes repeated rounds as the gateway does, because the live events still contain all of them. */
function withoutRepeats(transitions: readonly Transition[]): readonly Transition[] {
  const rounds = roundsOf(transitions)
  const isNews = (round: readonly Transition[], at: number) =>
    round.at(-1)?.event !== 'claimed' || at === 0 || way(round) !== way(rounds[at - 1] ?? [])
  return rounds.filter(isNews).flat()
}

/** How one instance moved, newest first, with the time it spent in each state. */
export function History({ transitions: all }: { transitions: readonly Transition[] }) {
  const transitions = withoutRepeats(all)
  if (transitions.length === 0)
    return <p class="muted">The gateway remembers no transition of it: it has rested for longer.</p>
  return (
    <Frame label="History" kind="history">
      <ol>
        {transitions.map((transition, at) => {
          const next = transitions[at - 1]
          const stayedMs = next === undefined ? null : Date.parse(next.at) - Date.parse(transition.at)
          return (
            <li key={keyOf(transition)} class={at === 0 ? 'now' : ''}>
              <span class="history-state">{transition.to}</span>
              <span class="history-event">{transition.event.replace(/^xstate\./, '')}</span>
              <time dateTime={transition.at}>{clockTime(transition.at)}</time>
              <span class="muted history-stay">{stayedMs === null ? 'now' : `for ${duration(stayedMs)}`}</span>
            </li>
          )
        })}
      </ol>
    </Frame>
  )
}
