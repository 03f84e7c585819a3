const digits = new Intl.NumberFormat('en-US')
const decimalsOfEther = 18

/** 1048576 → `1,048,576`; a number that is no exact integer stays as it was written. */
export const inDigits = (value: number): string => (Number.isSafeInteger(value) ? digits.format(value) : String(value))

/** 40000000000000n → `0.00004 ETH (40000000000000 wei)`: to be read, and exact. */
export function inEther(wei: bigint): string {
  const text = wei.toString().padStart(decimalsOfEther + 1, '0')
  const fraction = text.slice(-decimalsOfEther).replace(/0+$/, '')
  const whole = text.slice(0, -decimalsOfEther)
  return `${whole}${fraction === '' ? '' : `.${fraction}`} ETH (${wei} wei)`
}
