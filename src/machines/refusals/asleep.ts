import type { Route } from '../rules/routing.ts'
import type { WakeRefusal } from '../sleep/waking.ts'

/** Names in one message. */
const namedMax = 3

/** Names of sleeping nodes, each once. Only their owner reads them. */
function namesOf(routes: readonly Route[]): string {
  const names = [...new Set(routes.flatMap(({ asleep }) => asleep?.name ?? []))]
  const more = names.length - namedMax
  return `${names.slice(0, namedMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

const inVain =
  'They were sent magic packets before and did not wake. Check that wake-on-LAN is on in their firmware and system, and that they are on a cable.'

/** Of 503 `node_asleep`, when no node may be woken. */
export function asleepRefused(model: string, routes: readonly Route[], why: WakeRefusal): string {
  const asleep = `Only sleeping nodes have ${model} (${namesOf(routes)}).`
  switch (why) {
    case 'policy':
      return `${asleep} The policy of this key or of its account does not let requests wake them: ask the operator to set allow_wake to true.`
    case 'no_address':
      return `${asleep} No hardware address is known to which a magic packet could be sent: wake the computer by hand, or name its address with nodes set --mac.`
    case 'paused':
      return `${asleep} ${inVain} The gateway tries again after a pause that grows; nodes wake tries at once.`
    case 'hours': {
      const hours = [...new Set(routes.flatMap(({ asleep: sleeping }) => sleeping?.hours ?? []))]
      return `${asleep} Requests may wake them only within ${hours.slice(0, namedMax).join(', ')}.`
    }
  }
}

/** Of 503 `node_asleep`, when a node was woken in vain. `seconds`: how long the request waited. */
export const notWoken = (name: string, seconds: number): string =>
  `${name} was sent magic packets for ${seconds} s and did not wake. Check that wake-on-LAN is on in its firmware and its system, and that it is on a cable.`
