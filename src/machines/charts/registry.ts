import type { AnyStateMachine } from 'xstate'
import { mixtureMachine } from '../mixture/machine.ts'
import { chatRequestMachine } from './chat-request.ts'
import { modelServerMachine } from './model-server.ts'
import { nodeMachine } from './node.ts'
import { payoutBatchMachine } from './payout-batch.ts'
import { privateJobMachine } from './private-job.ts'
import { routerMachine } from './router.ts'
import { webhookDeliveryMachine } from './webhook-delivery.ts'

/** A statechart as operators see it. */
export interface Chart {
  readonly machine: AnyStateMachine
  readonly title: string
  /** What one instance of it is. */
  readonly about: string
  /** No actor runs it: its instances are the records of finished requests. */
  readonly recorded?: true
}

/** Every statechart of the gateway; pictures, live counts and histories derive from this list. */
export const charts: readonly Chart[] = [
  { machine: nodeMachine, title: 'Node', about: 'One node of the pool, as this gateway sees it' },
  { machine: chatRequestMachine, title: 'Request', about: 'One inference request, from its record', recorded: true },
  { machine: routerMachine, title: 'Router', about: 'The pool of this gateway' },
  { machine: modelServerMachine, title: 'Model server', about: 'One model that an agent starts and ends' },
  { machine: mixtureMachine, title: 'Mixture', about: 'One request that asks several models' },
  { machine: privateJobMachine, title: 'Private job', about: 'A sealed request on its way to its node' },
  { machine: webhookDeliveryMachine, title: 'Webhook delivery', about: 'One event on its way to its receiver' },
  {
    machine: payoutBatchMachine,
    title: 'Payout batch',
    about: 'Payouts under one root on their way to the blockchain',
  },
]
