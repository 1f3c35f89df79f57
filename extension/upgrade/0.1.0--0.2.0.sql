-- What CREATE OR REPLACE cannot do on the way from 0.1.0 to 0.2.0: changes of tables, and what is no more.
-- Runs before everything that upgrade.awk takes from sql/.
ALTER TABLE graphrag.corpora ADD COLUMN protection text;
