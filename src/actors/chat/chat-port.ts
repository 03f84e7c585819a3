import type { NewReceipt } from '../../db/queries/money/receipts.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import type { LargeWork } from '../../host/large-work.ts'
import type { VectorLengths } from '../../protocol/embeddings/vector-lengths.ts'
import type { DispatchPort } from '../dispatch/dispatched.ts'
import type { Limits } from '../limits/limits.ts'
import type { OwnModels } from '../loading/own-models.ts'
import type { LogPromises } from '../promises/log-promises.ts'
import type { Ticker } from '../relay/ticker.ts'
import type { ChatCommand } from './chat-command.ts'
import type { PaidCallPort } from './paid-call.ts'

/** Shared by all requests of a gateway. */
export interface ChatPort extends DispatchPort<ChatCommand> {
  readonly ledger: PaidCallPort['ledger']
  readonly idempotency: PaidCallPort['idempotency']
  readonly limits: Limits
  readonly ownModels: Pick<OwnModels, 'has' | 'load' | 'unload'>
  readonly memory: MemoryBudget
  readonly largeWork: LargeWork
  readonly vectorLengths: VectorLengths
  readonly ticker: Ticker
  readonly baseUrl: () => string
  readonly receipt: (receipt: NewReceipt) => void
  /** Receipts say when they were issued (§36). */
  readonly timed: () => boolean
  readonly promises: Pick<LogPromises, 'slot' | 'fill'>
}
