"""What the scenario tests are made of; ringtail.py is the front door."""
