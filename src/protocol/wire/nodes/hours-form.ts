/** Hours of the day, as `07:00-23:00 Europe/Berlin`; whether the time zone is one, `hoursOf` says. */
export const hoursForm =
  '^([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])(?: ([A-Za-z][A-Za-z0-9_+/-]{0,63}))?$'

/** The form in words for a person. */
export const hoursWords = 'hours of the day such as 07:00-23:00, with a time zone behind them where it is not UTC'
