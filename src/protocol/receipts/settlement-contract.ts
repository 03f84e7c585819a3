import { keccak256, toHex } from './merkle.ts'

/** What `contracts/PayoutSettlement.sol` emits once for each batch (§14). */
export const settledEventSignature = 'PayoutBatchSettled(bytes32,bytes32,uint256,uint256)'
export const settledEventTopic = toHex(keccak256(new TextEncoder().encode(settledEventSignature)))
