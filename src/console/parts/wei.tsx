import { ether } from './format.ts'

/** Whole wei in the title, its unit in the text: both are exact where the text says so. */
export const Wei = ({ wei }: { wei: string }) => <span title={`${wei} wei`}>{ether(wei)}</span>
